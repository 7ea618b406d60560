-- Grain: one answered model call.
with calls as (
    select * from main.llm_calls
),

final as (
    select
        arm,
        attempt_id,
        instance_id,
        role,
        scope,
        input_tokens,
        cache_read_tokens,
        output_tokens,
        reasoning_tokens,
        finish_reason,
        cost_usd
    from calls
)

select * from final
