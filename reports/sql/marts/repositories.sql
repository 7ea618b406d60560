-- Grain: one planned instance, with its repository and its difficulty. The repository of an untried
-- instance is derived from its id if that is one of SWE-bench, and is null if it is not known.
with planned as (
    select distinct instance_id from marts.planned_cells
),

known as (
    select
        instance_id,
        any_value(repo) as repo,
        any_value(difficulty) as difficulty
    from staging.attempts
    group by instance_id
),

final as (
    select
        instance_id,
        coalesce(
            repo,
            case
                when regexp_full_match(instance_id, '[^_/].*?__.+-[0-9]+')
                    then regexp_replace(instance_id, '^(.+?)__(.+)-[0-9]+$', '\1/\2')
            end
        ) as repository,
        difficulty
    from planned
    left join known using (instance_id)
)

select * from final
