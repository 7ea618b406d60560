-- Grain: one attempt that made model calls, with their number and what the priced ones cost.
with calls as (
    select * from staging.llm_calls
),

final as (
    select
        attempt_id,
        arm,
        instance_id,
        count(*) as calls,
        coalesce(sum(cost_usd), 0) as cost_usd
    from calls
    group by attempt_id, arm, instance_id
)

select * from final
