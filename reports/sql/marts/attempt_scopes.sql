-- Grain: one attempt × role × scope with model calls, with their sums. Only the priced calls have a
-- cost. Sums of tokens are null unless the tokens of every call are known. An answer is cut at
-- the output limit, and empty if it has no output but reasoning.
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
        case when count(input_tokens) = count(*) then sum(input_tokens) end as input_tokens,
        case
            when count(cache_read_tokens) = count(*) then sum(cache_read_tokens)
        end as cache_read_tokens,
        case when count(output_tokens) = count(*) then sum(output_tokens) end as output_tokens
    from calls
    group by attempt_id, role, scope
)

select * from final
