"""A Hydra application that does nothing: what `retort config show`, `sweep` and completion are measured against."""

import hydra


@hydra.main(version_base="1.3", config_path=None)
def main(config):
    pass


main()
