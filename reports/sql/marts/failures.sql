-- Grain: one planned cell that is not resolved, with the class of its failure, the ending that the
-- counting attempt reports, and the progress of a durable arm.
with cells as (
    select * from marts.cells where state <> 'resolved'
),

calls as (
    select attempt_id, calls, cut_calls, empty_calls from marts.attempt_calls
),

joined as (
    select
        cells.*,
        coalesce(2 * cut_calls >= calls, false) as is_starved,
        coalesce(2 * empty_calls >= calls, false) as is_empty
    from cells
    left join calls using (attempt_id)
),

final as (
    select
        arm,
        position,
        instance_id,
        instance_position,
        repeat,
        attempt_id,
        nullif(detail, '') as why,
        case
            when state = 'no_patch' and is_unanswered then 'unanswered'
            when state = 'no_patch' and is_starved then 'starved'
            when state = 'no_patch' and is_empty then 'empty'
            when state = 'infrastructure' and contains(detail, 'rate limit: ') then 'throttled'
            when state = 'infrastructure' and contains(detail, 'malformed answer: ') then 'empty'
            when state <> 'unresolved' then state
            when fail_to_pass_failures > 0 and pass_to_pass_failures > 0 then 'both'
            when fail_to_pass_failures > 0 then 'fail_to_pass'
            when pass_to_pass_failures > 0 then 'pass_to_pass'
            else 'untold'
        end as class,
        outcome as ended,
        case
            when workflow_status is null then null
            when agent_verdict = 'accepted' and not reproduced then 'accepted_unreproduced'
            when agent_verdict in ('accepted', 'rejected') then agent_verdict
            when not reproduced then 'not_reproduced'
            when workflow_status in ('blocked', 'out_of_turns', 'out_of_limits')
                then workflow_status
            else 'unverified'
        end as phase
    from joined
)

select * from final
