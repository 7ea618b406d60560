-- Grain: one declared arm × position in the order in which the arms started an instance and repeat.
-- Only cells with a known position, so that drift of a provider shows as a trend over positions.
with cells as (
    select * from marts.cells where order_in_instance is not null
),

final as (
    select
        arm,
        any_value(position) as position,
        order_in_instance,
        count(*) as cells,
        count(*) filter (state = 'resolved') as resolved,
        count(*) filter (is_cost_complete) as priced_cells,
        sum(cost_usd) filter (is_cost_complete) as cost_usd
    from cells
    group by arm, order_in_instance
)

select * from final
order by position, arm, order_in_instance
