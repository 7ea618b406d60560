-- Grain: one ordered pair of declared arms that do not resolve as many cells of every instance.
-- `leads` maps the number of cells by which the candidate leads at an instance (below 0 where the
-- baseline does) to the number of instances at which it is so, over the repeats planned in both.
with declared as (
    select
        arm,
        repeats
    from staging.experiments
),

shared as (
    select distinct repeats as shared
    from declared
),

instances as (
    select
        arm,
        instance_id,
        repeats,
        shared,
        (count(*) filter (state = 'resolved'))::integer as resolved
    from marts.cells
    inner join declared using (arm)
    inner join shared on repeat < shared and shared <= repeats
    group by all
),

final as (
    select
        baseline.arm as baseline,
        candidate.arm as candidate,
        histogram(candidate.resolved - baseline.resolved) as leads
    from instances as baseline
    inner join instances as candidate using (instance_id, shared)
    where shared = least(baseline.repeats, candidate.repeats)
        and baseline.resolved <> candidate.resolved
    group by all
)

select * from final
