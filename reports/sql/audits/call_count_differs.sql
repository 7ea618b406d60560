-- Must be empty: attempts that state another number of model calls than `llm_calls` holds.
-- Imported runs may come without their calls, or with several calls in one row.
with attempts as (
    select * from staging.attempts
),

calls as (
    select attempt_id, calls from marts.attempt_calls
),

final as (
    select attempt_id, model_calls, coalesce(calls, 0) as recorded_calls
    from attempts
    left join calls using (attempt_id)
    where
        model_calls <> coalesce(calls, 0)
        and not (environment = 'imported' and coalesce(calls, 0) <= model_calls)
)

select * from final
