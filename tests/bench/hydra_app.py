"""A Hydra application that does nothing, as the peer of `retort config show`, `sweep` and completion."""

import hydra


@hydra.main(version_base="1.3", config_path=None)
def main(config):
    pass


main()
