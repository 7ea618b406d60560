-- Grain: one graded attempt, with the grading that counts: the latest that infrastructure
-- did not end or, where there is none, the latest.
with evaluations as (
    select * from staging.evaluations
),

final as (
    select *
    from evaluations
    qualify row_number() over (
        partition by attempt_id
        order by is_infrastructure, started_at_utc desc nulls last
    ) = 1
)

select * from final
