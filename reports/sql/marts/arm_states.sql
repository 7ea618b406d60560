-- Grain: one state that occurs in one declared arm, with the number of its cells.
with cells as (
    select * from marts.cells
),

final as (
    select experiment, arm, state, count(*) as cells
    from cells
    group by experiment, arm, state
)

select * from final
order by experiment, arm, state
