EXPAND_BRANCH = "expand"
CONTRACT_BRANCH = "contract"
