-- Grain: one declared arm whose attempts ran an external program. Sums are over the attempts that
-- count. Claimed and metered cost are of the attempts whose program claims a cost.
with cells as (
    select * from marts.cells where restarts is not null or recipe_digest is not null
),

final as (
    select
        arm,
        position,
        count(*) as attempts,
        string_agg(distinct agent_version, ', ' order by agent_version) as versions,
        string_agg(distinct left(recipe_digest, 8), ', ' order by left(recipe_digest, 8)) as recipes,
        count(claimed_usd) as claims,
        sum(claimed_usd) as claimed_usd,
        sum(cost_usd) filter (claimed_usd is not null) as metered_usd,
        count(*) filter (claimed_usd is not null and not is_cost_complete) as incomplete_cells,
        median(first_request_s) as first_request_s,
        sum(restarts)::bigint as restarts,
        sum(answered_from_record)::bigint as answered_from_record,
        sum(loosened_calls)::bigint as loosened_calls,
        sum(unused_calls)::bigint as unused_calls,
        min(first_difference) as first_difference
    from cells
    group by arm, position
)

select * from final
order by position, arm
