-- Grain: one declared arm. Tokens, calls, costs and times come from the attempts that
-- count. The cost of earlier attempts at the same cells is a separate column. Sums and means are
-- over the known values, or null if there are none.
with cells as (
    select * from marts.cells
),

declared as (
    select experiment, arm, position, agent, model, simulated, environment, derived_from
    from staging.experiments
),

totals as (
    select
        experiment,
        arm,
        count(*) as planned,
        count(*) filter (repeat = 0) as instances,
        count(attempt_id) as started,
        count(*) filter (is_suspect) as suspect,
        count(*) filter (state = 'resolved' and audited_verdict is null) as unaudited,
        fsum(cost_usd) as known_cost_usd,
        count(*) filter (is_unmetered) as unmetered_cells,
        count(cost_usd) as cells_with_cost,
        count(*) filter (not is_cost_complete) as cells_with_incomplete_cost,
        coalesce(sum(unpriced_calls), 0) as unpriced_calls,
        count(*) filter (unpriced_calls > 0) as cells_with_unpriced_calls,
        sum(input_tokens) as input_tokens,
        sum(cache_read_tokens) as cache_read_tokens,
        sum(cache_write_tokens) as cache_write_tokens,
        sum(output_tokens) as output_tokens,
        sum(reasoning_tokens) as reasoning_tokens,
        count(input_tokens + output_tokens) as cells_with_tokens,
        count(input_tokens) as cells_with_input,
        count(cache_read_tokens) as cells_with_cache_read,
        count(cache_write_tokens) as cells_with_cache_write,
        count(output_tokens) as cells_with_output,
        count(reasoning_tokens) as cells_with_reasoning,
        avg(model_calls) as mean_calls,
        count(model_calls) as cells_with_calls,
        count(*) filter (is_unanswered) as unanswered,
        mode(detail order by detail) filter (is_unanswered) as unanswered_because,
        avg(duration_s) as mean_duration_s,
        count(*) filter (superseded_attempts > 0) as cells_tried_again,
        coalesce(sum(superseded_attempts), 0) as superseded_attempts,
        sum(superseded_cost_usd) as superseded_cost_usd,
        coalesce(sum(superseded_incomplete), 0) as superseded_incomplete,
        coalesce(bool_or(provider = 'simulated'), false) as used_simulated,
        coalesce(bool_or(environment = 'host' or graded_in = 'host'), false) as used_host
    from cells
    group by experiment, arm
),

final as (
    select
        declared.* exclude (simulated, environment),
        declared.simulated or used_simulated as simulated,
        declared.environment = 'host' or used_host as on_host,
        unmetered_cells > 0 and coalesce(known_cost_usd, 0) = 0 as is_unmetered,
        totals.* exclude (experiment, arm, used_simulated, used_host)
            replace (nullif(known_cost_usd, case when unmetered_cells > 0 then 0 end) as known_cost_usd)
    from declared
    inner join totals using (experiment, arm)
)

select * from final
order by experiment, position, arm
