-- Grain: one instance that 30 to 70 % of its attempts resolve, over all arms but controls, of at least
-- three attempts that ran.
with cells as (
    select instance_id, state
    from marts.cells
    semi join staging.experiments as declared
        on cells.arm = declared.arm and declared.agent not in ('gold', 'null')
    where state not in ('missing', 'ungraded', 'infrastructure')
),

final as (
    select
        instance_id,
        count(*) as attempts,
        count(*) filter (state = 'resolved') as resolved
    from cells
    group by instance_id
)

select * from final
where attempts >= 3 and 10 * resolved between 3 * attempts and 7 * attempts
order by instance_id
