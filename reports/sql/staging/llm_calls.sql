-- Grain: one answered model call.
with calls as (
    select * from main.llm_calls
),

final as (
    select arm, attempt_id, instance_id, cost_usd
    from calls
)

select * from final
