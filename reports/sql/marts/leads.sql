-- Grain: one ordered pair of declared arms that do not resolve as many cells of every instance.
-- `leads` maps the number of cells by which the candidate leads at an instance (below 0 where the
-- baseline does) to the number of instances at which it is so, over the repeats planned in both.
with declared as (
    select arm, repeats, row_number() over (order by position, arm) as number
    from staging.experiments
),

shared as (
    select distinct repeats as shared
    from declared
),

instances as (
    select
        number,
        repeats,
        shared,
        instance_id,
        (count(*) filter (state = 'resolved'))::integer as resolved
    from marts.cells
    inner join declared using (arm)
    inner join shared on repeat < shared and shared <= repeats
    group by all
),

-- Each pair is counted in one direction. In the other one, its leads have the other sign.
counted as (
    select
        baseline.number as first,
        candidate.number as second,
        candidate.resolved - baseline.resolved as lead,
        count(*) as instances
    from instances as baseline
    inner join instances as candidate using (instance_id, shared)
    where baseline.number < candidate.number
        and shared = least(baseline.repeats, candidate.repeats)
        and baseline.resolved <> candidate.resolved
    group by all
),

ordered as (
    select first as baseline, second as candidate, lead, instances from counted

    union all

    select second, first, -lead, instances from counted
),

final as (
    select
        baseline.arm as baseline,
        candidate.arm as candidate,
        map_from_entries(list((lead, instances) order by lead)) as leads
    from ordered
    inner join declared as baseline on ordered.baseline = baseline.number
    inner join declared as candidate on ordered.candidate = candidate.number
    group by all
)

select * from final
