-- Must be empty: attempts that are recorded in more than one row.
with attempts as (
    select * from staging.attempts
),

final as (
    select attempt_id, count(*) as rows
    from attempts
    group by attempt_id
    having count(*) > 1
)

select * from final
