-- Grain: one declared arm with replies of known flaws, with their sums over the attempts that count,
-- and the number of its attempts whose flaws are unknown.
with cells as (
    select * from marts.cells where attempt_id is not null
),

final as (
    select
        arm,
        position,
        sum(model_calls) filter (empty_replies is not null)::bigint as replies,
        sum(empty_replies)::bigint as empty_replies,
        sum(cut_off_replies)::bigint as cut_off_replies,
        case
            when count(callless_replies) = count(empty_replies) then sum(callless_replies)::bigint
        end as callless_replies,
        sum(repeated_replies)::bigint as repeated_replies,
        sum(refused_requests)::bigint as refused_requests,
        count(*) filter (empty_replies is null) as unknown_cells
    from cells
    group by arm, position
    having count(empty_replies) > 0
)

select * from final
order by position, arm
