-- Grain: one declared arm × role × phase of the attempts that count, with the calls that it made.
-- A phase is a scope without the numbers of its branches and of the calls of programs.
with scopes as (
    select * from marts.attempt_scopes
),

cells as (
    select attempt_id, arm, position from marts.cells where attempt_id is not null
),

final as (
    select
        arm,
        position,
        role,
        regexp_replace(
            regexp_replace(scope, '-[0-9]+', '', 'g'), '/[0-9]+(/|$)', '\1', 'g'
        ) as phase,
        sum(calls)::bigint as calls,
        sum(priced_calls)::bigint as priced_calls,
        sum(cost_usd) as cost_usd,
        case
            when count(input_tokens) = count(*) then sum(input_tokens)::bigint
        end as input_tokens,
        case
            when count(cache_read_tokens) = count(*) then sum(cache_read_tokens)::bigint
        end as cache_read_tokens,
        case
            when count(output_tokens) = count(*) then sum(output_tokens)::bigint
        end as output_tokens
    from scopes
    inner join cells using (attempt_id)
    group by all
)

select * from final
order by position, arm, cost_usd desc nulls last, role, phase
