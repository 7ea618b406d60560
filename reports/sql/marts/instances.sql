-- Grain: one planned instance, with its repository, its difficulty, and the declared arms that plan
-- it and that resolve it at least once. Control arms do not count.
with arms as (
    select
        arm,
        agent not in ('gold', 'null') as is_contender,
        row_number() over (order by position, arm) as number
    from staging.experiments
),

named as (
    select list(arm order by number) as names from arms
),

-- Numbers of arms are sorted many times faster than their names.

planned as (
    select
        instance_id,
        list_sort(list(number) filter (is_contender)) as contenders,
        list_sort(list(number) filter (is_contender and resolved > 0)) as resolvers
    from marts.arm_instances
    inner join arms using (arm)
    group by instance_id
),

final as (
    select
        instance_id,
        repository,
        difficulty,
        [names[each] for each in coalesce(contenders, [])] as arms,
        [names[each] for each in coalesce(resolvers, [])] as resolving
    from planned
    cross join named
    inner join marts.repositories using (instance_id)
)

select * from final
order by instance_id
