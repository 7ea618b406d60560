-- Grain: one cell that was tried (arm × instance × repeat), with the attempt that counts:
-- the latest that infrastructure did not end or, where there is none, the latest.
with attempts as (
    select * from staging.attempts
),

ranked as (
    select
        attempts.*,
        row_number() over (
            partition by arm, instance_id, repeat
            order by is_unfinished, started_at_utc desc nulls last, attempt_id desc
        ) as rank
    from attempts
),

superseded as (
    select
        arm,
        instance_id,
        repeat,
        count(*) as superseded_attempts,
        sum(cost_usd) as superseded_cost_usd
    from ranked
    where rank > 1
    group by all
),

final as (
    select
        ranked.* exclude (rank),
        coalesce(superseded_attempts, 0) as superseded_attempts,
        superseded_cost_usd
    from ranked
    left join superseded using (arm, instance_id, repeat)
    where rank = 1
)

select * from final
