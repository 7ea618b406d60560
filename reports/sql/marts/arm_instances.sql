-- Grain: one declared arm at one instance that it plans, summed over the repeats. The cost is over
-- the cells that ran and have a fully known cost.
with cells as (
    select
        arm,
        position,
        instance_id,
        state = 'resolved' as is_resolved,
        case when is_cost_complete then cost_usd end as cost_usd
    from marts.cells
),

final as (
    select
        arm,
        position,
        instance_id,
        count(*) as planned,
        count(*) filter (is_resolved) as resolved,
        count(cost_usd) as priced,
        coalesce(fsum(cost_usd), 0) as cost_usd
    from cells
    group by all
)

select * from final
