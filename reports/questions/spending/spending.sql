-- Grain: one declared arm, with its bill for all attempts at planned cells, by purpose. The six
-- parts add up to `spent_usd`: the bill or, where that is unknown, the cost.
with attempts as (
    select * from marts.paid_attempts
),

declared as (
    select arm, position from staging.experiments
),

credited as (
    select
        arm,
        sum(cost_usd) as credited_usd,
        count(attempt_id) filter (not is_cost_complete) as incomplete_cells
    from marts.cells
    group by arm
),

final as (
    select
        arm,
        any_value(position) as position,
        count(attempt_id) as attempts,
        count(attempt_id) filter (billed_usd is null) as unbilled_attempts,
        count(attempt_id) filter (is_spent_unknown) as unknown_attempts,
        count(attempt_id) filter (is_spent_unknown and bought = 'resolved') as resolved_unknown,
        count(attempt_id) filter (is_spent_unknown and bought = 'unresolved') as unresolved_unknown,
        count(attempt_id) filter (is_spent_unknown and bought = 'no_verdict') as no_verdict_unknown,
        count(attempt_id) filter (is_spent_unknown and bought = 'superseded') as superseded_unknown,
        unbilled_attempts as lost_unknown,
        unbilled_attempts as unpriced_unknown,
        sum(billed_usd) as billed_usd,
        any_value(credited_usd) as credited_usd,
        any_value(incomplete_cells) as incomplete_cells,
        sum(spent_usd) as spent_usd,
        coalesce(sum(paid_usd) filter (bought = 'resolved'), 0) as resolved_usd,
        coalesce(sum(paid_usd) filter (bought = 'unresolved'), 0) as unresolved_usd,
        coalesce(sum(paid_usd) filter (bought = 'no_verdict'), 0) as no_verdict_usd,
        coalesce(sum(paid_usd) filter (bought = 'superseded'), 0) as superseded_usd,
        coalesce(sum(lost_usd), 0) as lost_usd,
        coalesce(sum(unpriced_usd), 0) as unpriced_usd
    from declared
    left join attempts using (arm)
    left join credited using (arm)
    group by arm
)

select * from final
order by position, arm
