-- Grain: one arm of the latest declaration of an experiment. What an import that was killed declared
-- is passed over where some of its arms are missing. The instances of one that was decided early
-- are those that have an attempt; the rest was not needed.
with declarations as (
    select * from main.experiments
),

counted as (
    select
        experiment,
        declaration_digest,
        max(declared_at) as declared_at,
        count(distinct arm) >= coalesce(
            json_array_length(any_value(declaration), '$.arms'), 1
        ) as is_whole
    from declarations
    group by experiment, declaration_digest
),

latest as (
    select experiment, declaration_digest
    from counted
    qualify row_number() over (
        partition by experiment order by is_whole desc, declared_at desc, declaration_digest
    ) = 1
),

decided as (
    select experiment
    from staging.decisions
    semi join latest using (experiment, declaration_digest)
),

begun as (
    select experiment, list(distinct instance_id) as ids
    from staging.attempts
    semi join decided using (experiment)
    group by experiment
),

-- A declaration that was run twice may have been written twice, with the same content.
final as (
    select
        declarations.* exclude (arm_order, declared_at, instance_ids),
        arm_order as position,
        declared_at at time zone 'UTC' as declared_at_utc,
        case
            when ids is null then instance_ids
            else list_filter(instance_ids, lambda id: list_contains(ids, id))
        end as instance_ids,
        len(declarations.instance_ids) as declared_instances
    from declarations
    semi join latest using (experiment, declaration_digest)
    left join begun using (experiment)
    qualify row_number() over (partition by experiment, arm order by declared_at) = 1
)

select * from final
order by experiment, position, arm
