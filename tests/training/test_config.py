"""Recipes: overrides, YAML round trip, and what each kind of mistake says."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlinf_ros.contract.errors import ConfigError
from rlinf_ros_training.config import (
    EnvConfig,
    PPOConfig,
    Recipe,
    RunnerConfig,
    apply_overrides,
    from_yaml,
    to_yaml,
)
from rlinf_ros_training.section import flatten


def test_overrides_are_read_by_the_fields_type():
    recipe = apply_overrides(
        Recipe(),
        [
            "ppo.learning_rate=1e-3",
            "ppo.gamma=1",
            "model.actor_hidden=64, 32",
            "model.critic_hidden=(256,)",
            "runner.total_env_steps=200_000",
            "runner.stop_at_success=0.9",
            "runner.staleness=1",
            "runner.overlap=False",
            "ppo.schedule=linear",
            "env.randomization.link_mass=0.1",
            "name=a=b",
        ],
    )
    assert recipe.ppo.learning_rate == 1e-3
    assert recipe.ppo.gamma == 1.0
    assert isinstance(recipe.ppo.gamma, float)
    assert recipe.model.actor_hidden == (64, 32)
    assert recipe.model.critic_hidden == (256,)
    assert recipe.runner == RunnerConfig(
        total_env_steps=200_000, stop_at_success=0.9, staleness=1, overlap=False
    )
    assert recipe.ppo.schedule == "linear"
    assert recipe.env.randomization.link_mass == 0.1
    assert recipe.name == "a=b"
    assert apply_overrides(recipe, ["runner.stop_at_success=none"]).runner.stop_at_success is None


@pytest.mark.parametrize(
    ("override", "where", "says"),
    [
        ("ppo.learning_rat=1", "ppo.learning_rat", "did you mean 'learning_rate'?"),
        ("pppo.gamma=1", "pppo.gamma", "did you mean 'ppo'?"),
        ("ppo.gamma=fast", "ppo.gamma", "expected a finite number, got 'fast'"),
        ("ppo.gamma=nan", "ppo.gamma", "expected a finite number"),
        ("ppo.gamma=1.5", "ppo.gamma", "allowed: [0.0, 1.0]"),
        ("ppo.gamma=none", "ppo.gamma", "expected a finite number"),
        ("ppo.epochs=2.5", "ppo.epochs", "expected a whole number, got 2.5"),
        ("ppo.epochs=true", "ppo.epochs", "expected a whole number"),
        ("ppo.epochs=0", "ppo.epochs", "out of range"),
        ("ppo.schedule=linaer", "ppo.schedule", "did you mean 'linear'?"),
        ("runner.overlap=1", "runner.overlap", "expected true or false"),
        ("runner.staleness=2", "runner.staleness", "allowed: 0, 1"),
        (
            "model.actor_hidden=64,big",
            "model.actor_hidden[1]",
            "expected a whole number, got 'big'",
        ),
        ("model.actor_hidden=", "model.actor_hidden", "expected a list"),
        ("model.actor_hidden=64,0", "model.actor_hidden", "0 is out of range"),
        ("ppo=1", "ppo", "allowed: ppo.gamma"),
        ("ppo.gamma.x=1", "ppo.gamma.x", "has no parts"),
        ("ppo.gamma", "ppo.gamma", "key.sub=value"),
        ("env.stages=3", "env.stages", "do not divide 128"),
    ],
)
def test_a_wrong_override_says_where_and_how_to_fix_it(override, where, says):
    with pytest.raises(ConfigError) as caught:
        apply_overrides(Recipe(), [override])
    assert caught.value.where == where
    assert says in str(caught.value)


def test_python_mistakes_are_caught_too():
    with pytest.raises(ConfigError, match=r"ppo\.gamma: 2\.0 is out of range"):
        PPOConfig(gamma=2.0)
    with pytest.raises(ConfigError, match=r"env\.num_envs: expected a whole number, got '8'"):
        EnvConfig(num_envs="8")  # type: ignore[arg-type]


def test_yaml_names_the_path_of_an_unknown_key():
    with pytest.raises(ConfigError) as caught:
        from_yaml("ppo:\n  lamda: 0.9\n", where="runs/a/recipe.yaml")
    assert caught.value.where == "runs/a/recipe.yaml.ppo.lamda"
    with pytest.raises(ConfigError, match=r"expected a mapping"):
        from_yaml("ppo: 3")
    with pytest.raises(ConfigError, match="appears twice"):
        from_yaml("ppo: {gamma: 0.9, gamma: 0.8}")


positive = st.floats(1e-9, 1e9)


@settings(deadline=None)
@given(
    positive,
    st.none() | st.floats(0, 1),
    st.lists(st.integers(1, 1000), min_size=1, max_size=4),
    st.text(min_size=1),
)
def test_yaml_round_trip_is_exact(rate, stop, hidden, name):
    recipe = Recipe()
    recipe = dataclasses.replace(
        recipe,
        name=name,
        ppo=dataclasses.replace(recipe.ppo, learning_rate=rate),
        runner=dataclasses.replace(recipe.runner, stop_at_success=stop),
        model=dataclasses.replace(recipe.model, actor_hidden=tuple(hidden)),
    )
    assert from_yaml(to_yaml(recipe)) == recipe


@settings(deadline=None)
@given(st.sampled_from(sorted(flatten(Recipe()))))
def test_every_default_survives_as_an_override(key):
    value = flatten(Recipe())[key]
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    assert apply_overrides(Recipe(), [f"{key}={text}"]) == Recipe()
