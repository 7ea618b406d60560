-- Grain: one ordered pair of declared arms (baseline, candidate), over the cells (instance ×
-- repeat) that are planned in both. Costs only over pairs with both costs fully known.
with places as (
    select
        instance_id,
        repeat,
        row_number() over (order by min(instance_position), instance_id, repeat) as place
    from marts.cells
    group by instance_id, repeat
),

-- All arms have the same places, unplanned ones included.
placed as (
    select
        arm,
        position,
        list(
            {
                'resolved': coalesce(state = 'resolved', false)::double,
                'failed': coalesce(state <> 'resolved', false)::double,
                'first': (state is not null and repeat = 0)::double,
                'priced': coalesce(is_cost_complete, false)::double,
                'usd': case when is_cost_complete then cost_usd else 0 end
            }
            order by place
        ) as cells
    from staging.experiments
    cross join places
    left join marts.cells using (arm, position, instance_id, repeat)
    group by arm, position
),

lists as (
    select
        arm,
        position,
        [cell.resolved for cell in cells] as resolved,
        [cell.failed for cell in cells] as failed,
        [cell.first for cell in cells] as first,
        [cell.priced for cell in cells] as priced,
        [cell.usd for cell in cells] as usd
    from placed
),

-- A product of two lists is a sum over pairs of cells, many times faster than a join of all cells.
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
        list_inner_product(baseline.usd, candidate.priced) as baseline_cost_usd,
        list_inner_product(baseline.priced, candidate.usd) as candidate_cost_usd
    from lists as baseline
    inner join lists as candidate on baseline.arm <> candidate.arm
)

select * from final
where both_resolved + only_baseline + only_candidate + neither > 0
order by baseline_position, candidate_position
