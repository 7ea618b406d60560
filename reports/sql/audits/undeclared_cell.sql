-- Must be empty: attempts at an arm, instance or repeat that the declaration does not plan.
-- They are in no number of the report.
with attempts as (
    select * from staging.attempts
),

planned as (
    select * from marts.planned_cells
),

final as (
    select attempt_id, arm, instance_id, repeat
    from attempts
    anti join planned using (arm, instance_id, repeat)
)

select * from final
