-- Grain: one ordered pair of declared arms (baseline, candidate), over the cells (instance ×
-- repeat) that are planned in both. Costs only over pairs of which both are fully known.
with cells as (
    select
        arm,
        position,
        instance_id,
        instance_position,
        repeat,
        state = 'resolved' as is_resolved,
        case when is_cost_complete then cost_usd end as cost_usd
    from marts.cells
),

arms as (
    select distinct arm, position from cells
),

places as (
    select
        instance_id,
        repeat,
        row_number() over (order by min(instance_position), instance_id, repeat) as place
    from cells
    group by instance_id, repeat
),

-- All arms have the same places, those that they do not plan included, so that the inner product
-- of two lists is a sum over pairs of cells. A join of all cells with each other takes many times
-- as long.
placed as (
    select
        arms.arm,
        arms.position,
        list(
            {
                'resolved': coalesce(is_resolved, false)::double,
                'failed': coalesce(not is_resolved, false)::double,
                'first': (is_resolved is not null and repeat = 0)::double,
                'priced': (cost_usd is not null)::double,
                'cost': coalesce(cost_usd, 0)
            }
            order by place
        ) as cells
    from arms
    cross join places
    left join cells using (arm, instance_id, repeat)
    group by arms.arm, arms.position
),

lists as (
    select
        arm,
        position,
        [cell.resolved for cell in cells] as resolved,
        [cell.failed for cell in cells] as failed,
        [cell.first for cell in cells] as first,
        [cell.priced for cell in cells] as priced,
        [cell.cost for cell in cells] as cost
    from placed
),

final as (
    select
        baseline.arm as baseline,
        candidate.arm as candidate,
        baseline.position as baseline_position,
        candidate.position as candidate_position,
        list_inner_product(baseline.resolved, candidate.resolved)::bigint as both_resolved,
        list_inner_product(baseline.resolved, candidate.failed)::bigint as only_baseline,
        list_inner_product(baseline.failed, candidate.resolved)::bigint as only_candidate,
        list_inner_product(baseline.failed, candidate.failed)::bigint as neither,
        list_inner_product(baseline.first, candidate.first)::bigint as instances,
        list_inner_product(baseline.priced, candidate.priced)::bigint as priced_pairs,
        list_inner_product(baseline.cost, candidate.priced) as baseline_cost_usd,
        list_inner_product(baseline.priced, candidate.cost) as candidate_cost_usd
    from lists as baseline
    inner join lists as candidate on baseline.arm <> candidate.arm
)

select * from final
where both_resolved + only_baseline + only_candidate + neither > 0
order by baseline_position, candidate_position
