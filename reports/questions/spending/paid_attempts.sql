-- Grain: one attempt at a planned cell, with what it was billed, divided into what its recorded
-- calls cost (`paid_usd`) and the rest: calls lost in a crash, and calls of unknown price, both
-- at their reservation. `bought` names the purpose of the first part.
with counted as (
    select attempt_id, state from marts.cells where attempt_id is not null
),

-- What does not count is at a cell that was tried again. These are few.
planned_again as (
    select * from marts.cells_tried_again
    semi join marts.planned_cells using (experiment, arm, instance_id, repeat)
),

-- A fork or a derived attempt is credited with calls that another one was billed for: it pays less
-- than it cost. Files of earlier releases do not say how much less.
own as (
    select
        attempts.*,
        state,
        case
            when cost_usd is not null then greatest(cost_usd - coalesce(reused_usd, 0), 0)
        end as own_usd
    from staging.attempts as attempts
    left join counted using (attempt_id)
    where state is not null or (experiment, arm, instance_id, repeat) in (from planned_again)
),

known as (
    select
        *,
        coalesce(billed_usd, own_usd) as spent_usd,
        least(coalesce(billed_usd, own_usd), coalesce(own_usd, 0)) as paid_usd
    from own
),

-- Less than a millionth comes from rounding in the ledger.
divided as (
    select
        *,
        case when spent_usd - paid_usd > 1e-6 then spent_usd - paid_usd else 0 end as rest_usd
    from known
),

final as (
    select
        arm,
        instance_id,
        repeat,
        attempt_id,
        billed_usd,
        spent_usd,
        billed_usd is null and not is_cost_complete as is_spent_unknown,
        paid_usd,
        case when unpriced_calls = 0 then rest_usd end as lost_usd,
        case when unpriced_calls > 0 then rest_usd end as unpriced_usd,
        case
            when state is null then 'superseded'
            when state in ('infrastructure', 'stopped', 'ungraded') then 'no_verdict'
            when state = 'resolved' then 'resolved'
            else 'unresolved'
        end as bought
    from divided
)

select * from final
