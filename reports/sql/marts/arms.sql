-- Grain: one declared arm. Tokens, calls, costs and times are those of the attempts that
-- count; what earlier attempts at the same cells cost stands beside them.
with cells as (
    select * from marts.cells
),

declared as (
    select arm, position, agent, model, simulated, environment from staging.experiments
),

totals as (
    select
        arm,
        count(*) as planned,
        count(*) filter (repeat = 0) as instances,
        count(attempt_id) as started,
        count(*) filter (is_suspect) as suspect,
        count(*) filter (state = 'resolved' and audited_verdict is null) as unaudited,
        coalesce(sum(cost_usd), 0) as known_cost_usd,
        count(cost_usd) as cells_with_cost,
        count(*) filter (not is_cost_complete) as cells_with_incomplete_cost,
        coalesce(sum(unpriced_calls), 0) as unpriced_calls,
        coalesce(sum(input_tokens), 0) as input_tokens,
        coalesce(sum(cache_read_tokens), 0) as cache_read_tokens,
        coalesce(sum(cache_write_tokens), 0) as cache_write_tokens,
        coalesce(sum(output_tokens), 0) as output_tokens,
        coalesce(sum(reasoning_tokens), 0) as reasoning_tokens,
        avg(model_calls) as mean_calls,
        avg(duration_s) as mean_duration_s,
        count(*) filter (superseded_attempts > 0) as cells_tried_again,
        coalesce(sum(superseded_attempts), 0) as superseded_attempts,
        coalesce(sum(superseded_cost_usd), 0) as superseded_cost_usd,
        coalesce(bool_or(provider = 'simulated'), false) as used_simulated,
        coalesce(bool_or(environment = 'host' or graded_in = 'host'), false) as used_host
    from cells
    group by arm
),

final as (
    select
        declared.arm,
        declared.position,
        declared.agent,
        declared.model,
        declared.simulated or used_simulated as simulated,
        declared.environment = 'host' or used_host as on_host,
        totals.* exclude (arm, used_simulated, used_host)
    from declared
    inner join totals using (arm)
)

select * from final
order by position, arm
