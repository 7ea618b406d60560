-- Grain: one declared arm with cells that ran at a cost that is not fully known, although it
-- has known costs above 0. `parts_usd` has the known part of each unknown cost, 0 if nothing is known.
with cells as (
    select * from marts.cells where attempt_id is not null
),

final as (
    select
        arm,
        any_value(position) as position,
        count(*) as ran,
        count(*) filter (state = 'resolved') as resolved,
        count(*) filter (is_cost_complete) as known_cells,
        sum(cost_usd) filter (is_cost_complete) as known_usd,
        max(cost_usd) filter (is_cost_complete) as most_usd,
        list(coalesce(cost_usd, 0) order by instance_position, repeat)
            filter (not is_cost_complete) as parts_usd
    from cells
    group by arm
    having most_usd > 0 and known_cells < ran
)

select * from final
order by position, arm
