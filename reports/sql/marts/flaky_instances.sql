-- Grain: one instance whose reference patch, of the arm `gold`, is resolved in some repeats only.
with graded as (
    select cells.instance_id, cells.state
    from marts.cells
    inner join marts.counted_attempts using (experiment, arm, instance_id, repeat)
    where counted_attempts.agent = 'gold'
),

final as (
    select
        instance_id,
        count(*) filter (where state = 'resolved') as resolved,
        count(*) as gradings
    from graded
    where state in ('resolved', 'unresolved', 'timeout')
    group by instance_id
    having resolved between 1 and gradings - 1
)

select * from final order by instance_id
