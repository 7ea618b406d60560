-- Grain: one declared arm × tool that its counting attempts used, with the number of uses. A command
-- in the workspace is the tool `command`, and an action is the tool of its name.
with steps as (
    select
        attempt_id,
        case
            when kind = 'action' then coalesce(json_extract_string(request, '$.action'), kind)
            else kind
        end as tool
    from main.steps
    where kind in ('command', 'action')
),

cells as (
    select attempt_id, arm, position from marts.cells where attempt_id is not null
),

final as (
    select arm, position, tool, count(*) as uses, count(distinct attempt_id) as attempts
    from steps
    inner join cells using (attempt_id)
    group by all
)

select * from final
order by position, arm, uses desc, tool
