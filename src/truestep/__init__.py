"""Mixed-precision training whose every optimizer update can be trusted."""
