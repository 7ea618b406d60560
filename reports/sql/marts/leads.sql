-- Grain: one ordered pair of declared arms that do not resolve as many cells of every instance.
-- `leads` maps the number of cells by which the candidate leads at an instance (below 0 where the
-- baseline does) to the number of instances at which it is so.
with cells as (
    select
        arm,
        instance_id,
        repeat,
        state = 'resolved' as resolved
    from marts.cells
),

instance_leads as (
    select
        baseline.arm as baseline,
        candidate.arm as candidate,
        instance_id,
        sum(case when candidate.resolved then 1 else -1 end)::integer as lead
    from cells as baseline
    inner join cells as candidate using (instance_id, repeat)
    where baseline.resolved <> candidate.resolved
    group by all
),

final as (
    select
        baseline,
        candidate,
        histogram(lead) as leads
    from instance_leads
    where lead <> 0
    group by all
)

select * from final
