-- Grain: one class of failure × ending × phase that occurs in one declared arm, with the number
-- of its cells and the reason that most of their attempts give.
with failures as (
    select * from marts.failures
),

final as (
    select arm, position, class, ended, phase, count(*) as cells, mode(why order by why) as why
    from failures
    group by arm, position, class, ended, phase
)

select * from final
order by position, arm, cells desc, class, ended, phase
