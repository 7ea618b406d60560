-- Grain: one graded attempt, with the grading that counts: the latest that infrastructure
-- did not end or, where there is none, the latest.
with evaluations as (
    select * from staging.evaluations
),

graded_again as (
    select * from marts.attempts_graded_again
),

-- Only these are sorted: most attempts have one grading, and sorting a million is slow.
latest as (
    select *
    from evaluations
    semi join graded_again using (experiment, attempt_id)
    qualify row_number() over (
        partition by experiment, attempt_id
        order by is_infrastructure, started_at_utc desc nulls last
    ) = 1
),

final as (
    select * from evaluations
    anti join graded_again using (experiment, attempt_id)

    union all

    select * from latest
)

select * from final
