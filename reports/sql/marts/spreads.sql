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

summed as (
    select
        arm,
        position,
        amount,
        coalesce(verdict, 'all') as verdict,
        count(*) as cells,
        avg(size) as mean,
        min(size) as least,
        quantile_cont(size, [0.25, 0.5, 0.75]) as quartiles,
        max(size) as most
    from amounts
    group by grouping sets ((arm, position, amount, verdict), (arm, position, amount))
),

final as (
    select
        * exclude (quartiles),
        quartiles[1] as lower_quartile,
        quartiles[2] as median,
        quartiles[3] as upper_quartile
    from summed
)

select * from final
order by position, arm, amount, verdict
