-- Grain: one attempt, also at cells that are not planned.
with attempts as (
    select * from main.attempts
),

-- Calls are not free: an attempt at no cost was not metered, and its zero is an unknown cost, unless
-- it is known to have made no call. Earlier releases billed calls of unknown price at 0. A fork may indeed have bought nothing.
metered as (
    select
        * exclude (is_unbilled) replace (
            case when not is_unmetered then cost_usd end as cost_usd,
            case
                when billed_usd > 0 or not (is_unmetered or is_unbilled) then billed_usd
            end as billed_usd
        )
    from (
        select
            *,
            coalesce(cost_usd = 0 and coalesce(model_calls, 1) > 0, false) as is_unmetered,
            base_attempt_id is null and (cost_usd is null or unpriced_calls > 0) as is_unbilled
        from attempts
    )
),

-- One with calls of unknown price cost at least what is known; one that was imported without
-- its calls may have no known cost at all, or a total that stands for itself.
final as (
    select
        experiment, arm,
        attempt_id,
        instance_id,
        repeat,
        nullif(repo, '') as repo,
        difficulty,
        try_cast(left(instance_created_at, 10) as date) as instance_date,
        agent,
        provider,
        environment,
        outcome,
        outcome in ('infrastructure', 'refused', 'budget_stop', 'interrupted', 'waiting')
            as is_unfinished,
        -- A function of another package may end without a call.
        coalesce(model <> 'none' and model_calls = 0 and case
            when is_unfinished then regexp_matches(detail, '^(ModelError|RequestRefused): ')
            else agent <> 'python' or refused_requests > 0
        end, false) as is_unanswered,
        detail,
        workflow_status,
        agent_verdict,
        reproduced,
        started_at at time zone 'UTC' as started_at_utc,
        duration_s,
        order_in_instance,
        model_calls,
        unpriced_calls,
        empty_replies, cut_off_replies, callless_replies, repeated_replies, refused_requests,
        input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
        base_attempt_id, reused_calls, reused_usd,
        claimed_usd, refused_tools, restarts, answered_from_record, loosened_calls, unused_calls,
        first_difference, agent_version, recipe_digest, first_request_s,
        memory_gb, cpus, pids, disk_gb,
        versions,
        billed_usd,
        cost_usd,
        cost_usd is not null and coalesce(unpriced_calls, 0) = 0 as is_cost_complete,
        is_unmetered
    from metered
)

select * from final
