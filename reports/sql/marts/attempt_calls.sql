-- Grain: one attempt that made model calls, with their number and the cost of the priced ones.
with scopes as (
    select * from marts.attempt_scopes
),

final as (
    select
        attempt_id,
        sum(calls) as calls,
        sum(cut_calls) as cut_calls,
        sum(empty_calls) as empty_calls,
        coalesce(sum(cost_usd), 0) as cost_usd
    from scopes
    group by attempt_id
)

select * from final
