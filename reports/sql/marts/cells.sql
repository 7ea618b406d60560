-- Grain: one planned cell (arm × instance × repeat), with how it ended and what it cost.
with planned as (
    select * from marts.planned_cells
),

attempts as (
    select * from marts.counted_attempts
),

evaluations as (
    select
        attempt_id,
        outcome as graded,
        resolved,
        reason,
        environment as graded_in
    from marts.counted_evaluations
),

-- Imported runs may come without patches, so that a missing prediction means "no patch" only
-- where nothing was graded either.
predictions as (
    select attempt_id, bool_or(has_patch) as has_patch
    from staging.predictions
    group by attempt_id
),

joined as (
    select
        planned.*,
        attempts.* exclude (arm, instance_id, repeat),
        evaluations.* exclude (attempt_id),
        coalesce(predictions.has_patch, graded is not null) as has_patch
    from planned
    left join attempts using (arm, instance_id, repeat)
    left join evaluations using (attempt_id)
    left join predictions using (attempt_id)
),

final as (
    select
        *,
        case
            when attempt_id is null then 'missing'
            when outcome in ('budget_stop', 'interrupted') then 'stopped'
            when is_unfinished then 'infrastructure'
            when resolved then 'resolved'
            when not has_patch then 'no_patch'
            when graded is null then 'ungraded'
            else graded
        end as state
    from joined
)

select * from final
order by instance_position, repeat, position
