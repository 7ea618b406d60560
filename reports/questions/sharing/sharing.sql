-- Grain: one declared arm that derives from another, with the calls that its attempts share with the
-- base's. They are credited to both arms and billed to one. `origin` is the first arm of the chain.
with recursive declared as (
    select arm, position, derived_from from staging.experiments
),

ancestry as (
    select arm, derived_from as base, 1 as distance from declared where derived_from is not null

    union all

    select ancestry.arm, declared.derived_from, distance + 1
    from ancestry
    inner join declared on declared.arm = ancestry.base
    where declared.derived_from is not null
),

origins as (
    select arm, arg_max(base, distance) as origin from ancestry group by arm
),

shared as (
    select
        arm,
        count(attempt_id) as attempts,
        coalesce(sum(model_calls), 0) as calls,
        coalesce(sum(reused_calls), 0) as reused_calls,
        sum(cost_usd) as credited_usd,
        sum(billed_usd) as billed_usd,
        case when count(attempt_id) > 0 then sum(reused_usd) else 0 end as reused_usd,
        count(attempt_id) filter (not is_cost_complete) as incomplete_cells,
        count(attempt_id) filter (billed_usd is null) as unbilled_cells
    from marts.cells
    group by arm
),

final as (
    select
        declared.arm,
        declared.position,
        declared.derived_from,
        origins.origin,
        shared.* exclude (arm)
    from declared
    inner join origins using (arm)
    inner join shared using (arm)
)

select * from final
order by position, arm
