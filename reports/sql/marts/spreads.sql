-- Grain: one declared arm × amount (calls, cost) × verdict (resolved, unresolved, all), over the cells
-- that ran and have the amount fully known, with its distribution.
with cells as (
    select
        arm,
        position,
        case when state = 'resolved' then 'resolved' else 'unresolved' end as verdict,
        model_calls::double as calls,
        case when is_cost_complete then cost_usd end as cost
    from marts.cells
    where attempt_id is not null
),

amounts as (
    unpivot cells on calls, cost into name amount value size
),

final as (
    select
        arm,
        position,
        amount,
        coalesce(verdict, 'all') as verdict,
        count(*) as cells,
        avg(size) as mean,
        min(size) as least,
        quantile_cont(size, 0.25) as lower_quartile,
        quantile_cont(size, 0.5) as median,
        quantile_cont(size, 0.75) as upper_quartile,
        max(size) as most
    from amounts
    group by grouping sets ((arm, position, amount, verdict), (arm, position, amount))
)

select * from final
order by position, arm, amount, verdict
