-- Grain: one attempt × role × scope with model calls, with their sums. Only the priced calls have a
-- cost. Sums of tokens are null if no call has known ones. An answer is cut at the output limit, and
-- empty if it has no output but reasoning.
with calls as (
    select * from staging.llm_calls
),

final as (
    select
        attempt_id,
        role,
        scope,
        count(*) as calls,
        count(cost_usd) as priced_calls,
        count_if(finish_reason in ('length', 'max_tokens')) as cut_calls,
        count_if(output_tokens <= coalesce(reasoning_tokens, 0)) as empty_calls,
        sum(cost_usd) as cost_usd,
        sum(input_tokens) as input_tokens,
        sum(cache_read_tokens) as cache_read_tokens,
        sum(output_tokens) as output_tokens
    from calls
    group by attempt_id, role, scope
)

select * from final
