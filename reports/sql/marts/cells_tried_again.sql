-- Grain: one cell (experiment × arm × instance × repeat) that was tried more than once.
with final as (
    select experiment, arm, instance_id, repeat
    from staging.attempts
    group by all
    having count(*) > 1
)

select * from final
