-- Grain: one attempt that was graded more than once.
with final as (
    select experiment, attempt_id
    from staging.evaluations
    group by experiment, attempt_id
    having count(*) > 1
)

select * from final
