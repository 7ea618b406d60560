-- Grain: one declared arm with a cell that a budget stopped, with the resolved cells over
-- all planned ones and the number without a budget stop.
with cells as (
    select * from marts.cells
),

final as (
    select
        arm,
        any_value(position) as position,
        count(*) as planned,
        count(*) filter (state = 'resolved') as resolved,
        count(*) filter (state = 'stopped' and outcome = 'budget_stop') as stopped
    from cells
    group by arm
    having stopped > 0
)

select * from final
order by position, arm
