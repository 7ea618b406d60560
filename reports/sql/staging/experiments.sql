-- Grain: one arm of the experiment's latest declaration.
with declarations as (
    select * from main.experiments
),

latest as (
    select declaration_digest
    from declarations
    order by declared_at desc, declaration_digest
    limit 1
),

-- A declaration that was run twice may have been written twice, with the same content.
final as (
    select
        declarations.* exclude (arm_order, declared_at),
        arm_order as position,
        declared_at at time zone 'UTC' as declared_at_utc
    from declarations
    semi join latest using (declaration_digest)
    qualify row_number() over (partition by arm order by declared_at) = 1
)

select * from final
order by position, arm
