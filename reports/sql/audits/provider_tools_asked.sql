-- Must be empty: attempts whose program asked for tools that the provider runs, such as web search.
-- They were left out, so the program worked with less than it expects.
with attempts as (
    select * from staging.attempts
),

final as (
    select attempt_id, refused_tools
    from attempts
    where refused_tools > 0
)

select * from final
