-- Grain: one ordered pair of declared arms (baseline, candidate), over the cells (instance ×
-- repeat) that are planned in both. Costs only over pairs of which both are fully known.
with cells as (
    select
        arm,
        position,
        instance_id,
        repeat,
        state = 'resolved' as resolved,
        case when is_cost_complete then cost_usd end as cost_usd
    from marts.cells
),

paired as (
    select
        baseline.arm as baseline,
        candidate.arm as candidate,
        baseline.position as baseline_position,
        candidate.position as candidate_position,
        repeat,
        baseline.resolved as baseline_resolved,
        candidate.resolved as candidate_resolved,
        baseline.cost_usd as baseline_cost_usd,
        candidate.cost_usd as candidate_cost_usd,
        baseline.cost_usd is not null and candidate.cost_usd is not null as is_priced
    from cells as baseline
    inner join cells as candidate using (instance_id, repeat)
    where baseline.arm <> candidate.arm
),

final as (
    select
        baseline,
        candidate,
        baseline_position,
        candidate_position,
        count(*) filter (baseline_resolved and candidate_resolved) as both_resolved,
        count(*) filter (baseline_resolved and not candidate_resolved) as only_baseline,
        count(*) filter (not baseline_resolved and candidate_resolved) as only_candidate,
        count(*) filter (not baseline_resolved and not candidate_resolved) as neither,
        count(*) filter (repeat = 0) as instances,
        count(*) filter (is_priced) as priced_pairs,
        coalesce(sum(baseline_cost_usd) filter (is_priced), 0) as baseline_cost_usd,
        coalesce(sum(candidate_cost_usd) filter (is_priced), 0) as candidate_cost_usd
    from paired
    group by all
)

select * from final
order by baseline_position, candidate_position
