-- Grain: one declared arm of which a budget stopped at least one cell, with the resolved cells over
-- all planned ones and the number of those that no budget stopped.
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
