-- Grain: one attempt, also at cells that are not planned.
with attempts as (
    select * from main.attempts
),

-- One with calls of unknown price cost at least what is known; one that was imported without
-- its calls may have no known cost at all, or a total that stands for itself.
final as (
    select
        arm,
        attempt_id,
        instance_id,
        repeat,
        agent,
        provider,
        environment,
        outcome,
        outcome in ('infrastructure', 'refused', 'budget_stop', 'interrupted') as is_unfinished,
        detail,
        workflow_status,
        agent_verdict,
        reproduced,
        started_at at time zone 'UTC' as started_at_utc,
        duration_s,
        model_calls,
        unpriced_calls,
        input_tokens,
        cache_read_tokens,
        cache_write_tokens,
        output_tokens,
        reasoning_tokens,
        claimed_usd,
        refused_tools,
        versions,
        billed_usd,
        cost_usd,
        cost_usd is not null and coalesce(unpriced_calls, 0) = 0 as is_cost_complete
    from attempts
)

select * from final
